package rules

import (
	"math"
	"testing"
	"time"
)

func rate(count, n int64, unit Unit) Amount {
	return Amount{Count: count, Per: Period{n, unit}}
}

func burst(a Amount, n int64) Amount {
	a.Burst = n
	return a
}

// TestParseAmount checks each form of an amount, and that String returns text with the same meaning.
func TestParseAmount(t *testing.T) {
	for text, want := range map[string]Amount{
		"100 per minute":                 rate(100, 1, Minute),
		"100/min":                        rate(100, 1, Minute),
		" 100 / min ":                    rate(100, 1, Minute),
		"100 PER Minute":                 rate(100, 1, Minute),
		"5 per 15m":                      rate(5, 15, Minute),
		"5 per 15 m":                     rate(5, 15, Minute),
		"5 per 15 minutes":               rate(5, 15, Minute),
		"5/15 min burst 2":               burst(rate(5, 15, Minute), 2),
		"100/min burst 20":               burst(rate(100, 1, Minute), 20),
		"100/min BURST 1k":               burst(rate(100, 1, Minute), 1000),
		"100,000 per day":                rate(100_000, 1, Day),
		"1_000_000 per week":             rate(1_000_000, 1, Week),
		"10k/s":                          rate(10_000, 1, Second),
		"10K/s":                          rate(10_000, 1, Second),
		"5M per month":                   rate(5_000_000, 1, Month),
		"5 per Min":                      rate(5, 1, Minute),
		"5 per 2 MONTHS":                 rate(5, 2, Month),
		"1 per 250ms":                    rate(1, 250, Millisecond),
		"1 per year":                     rate(1, 1, Year),
		"9223372036854775807 per second": rate(math.MaxInt64, 1, Second),
		"unlimited":                      {Kind: Unlimited},
		" Unlimited ":                    {Kind: Unlimited},
		"none":                           {Kind: None},
	} {
		got, err := ParseAmount(text)
		if err != nil || got != want {
			t.Errorf("ParseAmount(%q) = %+v, %v; want %+v", text, got, err, want)
			continue
		}
		if again, err := ParseAmount(got.String()); err != nil || again != got {
			t.Errorf("ParseAmount(%q) = %+v, %v; want %+v", got.String(), again, err, got)
		}
	}
}

// TestParseAmount_Refuses checks that each error names the wrong word and its reason.
func TestParseAmount_Refuses(t *testing.T) {
	for text, want := range map[string]*amountError{
		"":                             {"", errNoPeriod},
		"100":                          {"100", errNoPeriod},
		"100 minute":                   {"100 minute", errNoPeriod},
		"100 per":                      {"per", errNoPeriod},
		"100/":                         {"per", errNoPeriod},
		"/min":                         {"", errCount},
		"0/min":                        {"0", errZero},
		"00/min":                       {"00", errZeros},
		"0123/h":                       {"0123", errZeros},
		"0,123/h":                      {"0,123", errZeros},
		"05k/h":                        {"05k", errZeros},
		"5 per 015m":                   {"015", errZeros},
		"5 per 00m":                    {"00", errPeriod},
		"5 per 01 m":                   {"01", errZeros},
		"5/min burst 020":              {"020", errZeros},
		"5 per 15M":                    {"M", errCapitalM},
		"5 per 15 M":                   {"M", errCapitalM},
		"5/M":                          {"M", errCapitalM},
		"-5/min":                       {"-5", errCount},
		"+5/min":                       {"+5", errCount},
		"1.5/s":                        {"1.5", errFraction},
		"a few/min":                    {"a few", errCount},
		"0x10/min":                     {"0x10", errCount},
		"1e3/min":                      {"1e3", errCount},
		"100,00/min":                   {"100,00", errGroups},
		"1000,000/min":                 {"1000,000", errGroups},
		",100/min":                     {",100", errGroups},
		"1,000_000/min":                {"1,000_000", errGroups},
		"9223372036854775808/s":        {"9223372036854775808", errCount},
		"9223372036854775807k/s":       {"9223372036854775807k", errCount},
		"k/s":                          {"k", errCount},
		"5 per fortnight":              {"fortnight", errUnit},
		"5 per 15":                     {"15", errNoUnit},
		"5 per 15 burst":               {"burst", errUnit},
		"5 per 0m":                     {"0", errPeriod},
		"5 per -1m":                    {"-1", errPeriod},
		"5 per +1m":                    {"+1", errPeriod},
		"5 per 1.5h":                   {"1.5", errPeriod},
		"5 per 99999999999999999999 s": {"99999999999999999999", errPeriod},
		"5/min burst":                  {"burst", errBurst},
		"5/min burst 0":                {"0", errZero},
		"5/min burst 2 3":              {"3", errExtraWord},
		"5/min at most 3":              {"at", errExtraWord},
		"5/min/min":                    {"min/min", errUnit},
		"unlimited per minute":         {"unlimited", errCount},
	} {
		got, err := ParseAmount(text)
		if e, ok := err.(*amountError); !ok || *e != *want {
			t.Errorf("ParseAmount(%q) = %+v, %v; want the error %v", text, got, err, want)
		}
	}
}

// TestPeriod_Duration checks the lengths of periods, and that Duration returns false for months, for years, and for
// periods that do not fit a time.Duration.
func TestPeriod_Duration(t *testing.T) {
	for p, want := range map[Period]time.Duration{
		{250, Millisecond}:                      250 * time.Millisecond,
		{15, Minute}:                            15 * time.Minute,
		{2, Week}:                               14 * 24 * time.Hour,
		{math.MaxInt64, Millisecond}:            0,
		{106751, Day}:                           106751 * 24 * time.Hour,
		{106752, Day}:                           0,
		{1, Month}:                              0,
		{1, Year}:                               0,
		{math.MaxInt64 / 1_000_000_000, Second}: math.MaxInt64 / 1_000_000_000 * time.Second,
		{math.MaxInt64/1_000_000_000 + 1, Second}: 0,
	} {
		if got, ok := p.Duration(); got != want || ok != (want > 0) {
			t.Errorf("%v: Duration() = %v, %v; want %v", p, got, ok, want)
		}
	}
}

// FuzzParseAmount checks that no text makes ParseAmount panic, and that an accepted amount equals the amount that is
// parsed from its String.
func FuzzParseAmount(f *testing.F) {
	for _, text := range []string{"100 per minute", "5/15m burst 2", "100,000 per day", "unlimited", "none", "1.5/s", "5M per month"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAmount(text)
		if err != nil {
			if a != (Amount{}) || err.Error() == "" {
				t.Errorf("ParseAmount(%q) = %+v, %v", text, a, err)
			}
			return
		}
		if a.Kind == Rate && (a.Count < 1 || a.Per.N < 1 || a.Burst < 0) {
			t.Errorf("ParseAmount(%q) = %+v", text, a)
		}
		if again, err := ParseAmount(a.String()); err != nil || again != a {
			t.Errorf("ParseAmount(%q) = %+v, but its text %q is %+v, %v", text, a, a.String(), again, err)
		}
	})
}
