"""What is read of sessions: analysis, figures, reports, exports, and what is computed from their models."""
