module example.com/keywright

go 1.19
