package testdata

func LeftOut() {}
