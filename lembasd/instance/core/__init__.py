"""What the pocket instance decides, without I/O."""
