"""The pages: what a person signs in to, reads and decides on."""
