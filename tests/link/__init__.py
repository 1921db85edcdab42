"""One file for each section of the link's document: the wire as text, against a bare client."""
