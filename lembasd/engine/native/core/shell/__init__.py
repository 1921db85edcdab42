"""What a line of bash would run, read without running it."""
