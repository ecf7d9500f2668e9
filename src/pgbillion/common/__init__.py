"""What several features use, and knows none of them."""
