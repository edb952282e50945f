"""What readers see: pages, and one renderer a file."""
