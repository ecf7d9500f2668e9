"""For django-tenants: tenants that are cloned from a template (models.py) and migrated like it (executor.py).

It runs in an application, which has Django and django-tenants (the extra `django`), and needs nothing else of pgbillion
but the extension pgbillion_tables in the database.
"""
