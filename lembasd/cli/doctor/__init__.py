"""`lembasd doctor`: what is looked at, a file for each kind of thing."""
