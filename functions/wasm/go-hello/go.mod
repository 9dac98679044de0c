module go-hello

go 1.21
