"""What a site installs, publishes and keeps: trees, published winners, databases and what to expect of them."""
