module calls

go 1.19

require example.com/keywright v0.0.0

replace example.com/keywright => ../../../clients/go
