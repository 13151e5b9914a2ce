"""Clients of a shared server: a store as a token lets its client see and change it (`client_store`)."""
