"""What the site says that no page holds, since the code says it already: made as Markdown when the site is built."""
