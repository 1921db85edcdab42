"""Pure parts that every engine shares."""
