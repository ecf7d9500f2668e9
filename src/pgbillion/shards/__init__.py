"""One table over many servers: made and filled, asked, measured over more and more of them, and removed again."""
