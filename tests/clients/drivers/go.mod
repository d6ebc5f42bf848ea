module calls

go 1.19

require keywright v0.0.0

replace keywright => ../../../clients/go
