"""How fast, how far and how lastingly members learned."""
