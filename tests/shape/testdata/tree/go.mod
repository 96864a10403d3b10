module example.com/tree

go 1.25.0
