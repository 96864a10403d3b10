package low

import "testing"

func TestSum(t *testing.T) {
	sum, largest := 0, 0
	for _, n := range []int{1, 2, 3} {
		if n%2 == 0 {
			sum += n
		}
		if n > largest {
			largest = n
		}
	}
	if sum > 100 {
		sum = 100
	}
	if sum != 2 || largest != 3 {
		t.Errorf("sum %d, largest %d", sum, largest)
	}
}

func TestSumOfMore(t *testing.T) {
	// nobody told this test of the other
	total, most := 0, 0
	for _, m := range []int{4, 5, 6, 7} {
		if m%2 == 0 {
			total += m
		}
		if m > most {
			most = m
		}
	}
	if total > 50 {
		total = 50
	}
	if total != 10 || most != 7 {
		t.Errorf("sum %d, largest %d", total, most)
	}
}
