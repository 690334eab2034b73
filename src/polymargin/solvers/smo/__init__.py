"""The SMO-like family of Aiolli and Sperduti (2002)."""
