"""The pages: their links, what is made from the code, what they say of files."""
