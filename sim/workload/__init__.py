"""What gets swapped: captures of real activations, and how they were made."""
