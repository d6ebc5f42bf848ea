module keywright

go 1.19
