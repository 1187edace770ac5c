"""What muster routes itself, without a turn of the chief's: threads, reviews, resumed sessions."""
