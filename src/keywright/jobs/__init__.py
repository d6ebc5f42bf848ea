"""Long work in the background: generate, change, export and import many licenses in short steps.

``orders.start`` makes the command that starts a job. A worker claims the job and asks its ``planning.Plan``
for one step after the other; each step is a command. The job stores its progress, so that another server
process can continue it.
"""
