"""Reading sessions without torch: what tables, curves and reports are made of."""
