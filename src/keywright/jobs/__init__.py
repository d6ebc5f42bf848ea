"""Background jobs: generate, change, export and import many licenses in short steps.

``orders.start_command`` builds the command that starts a job. A worker claims the job and asks its
``planning.Plan`` for one step after another; each step is a command. The job stores its progress, so that
another server process can continue it.
"""
