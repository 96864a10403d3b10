package rules

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestChangedKeys changes each part of a limit in turn, so that no field of Limit can be missing in ChangedKeys.
func TestChangedKeys(t *testing.T) {
	var a, b Limit
	fill(reflect.ValueOf(&a).Elem(), 2)
	fill(reflect.ValueOf(&b).Elem(), 2)
	b.Name = "other"
	if got := a.ChangedKeys(&b); got != nil {
		t.Fatalf("two limits with the same content differ in %q:\n%+v\n%+v", got, a, b)
	}
	parts := 0
	for i := 1; i < reflect.TypeFor[Limit]().NumField(); i++ { // without Name
		field := reflect.TypeFor[Limit]().Field(i).Name
		change(reflect.ValueOf(&b).Elem().Field(i), field, func(path string) {
			parts++
			for _, got := range [][]string{a.ChangedKeys(&b), b.ChangedKeys(&a)} {
				if len(got) != 1 || !strings.EqualFold(strings.ReplaceAll(got[0], "_", ""), field) {
					t.Errorf("limits with a different %s differ in %q", path, got)
				}
			}
		})
	}
	if got := a.ChangedKeys(&b); got != nil || parts < 60 {
		t.Errorf("%d parts were changed, which is too few, or they are not restored: %q", parts, got)
	}
}

// TestLimitPartsAreKeys checks that the parts that are compared have the names of keys in files.
func TestLimitPartsAreKeys(t *testing.T) {
	for _, part := range limitParts {
		if !slices.ContainsFunc(limitKeys, func(k key[Limit]) bool { return k.name == part.key && k.decode != nil }) {
			t.Errorf("%q is compared, and is not a key of a limit", part.key)
		}
	}
}

// samples are two different values of types that are not changed part by part.
var samples = map[reflect.Type][2]any{
	reflect.TypeFor[netip.Prefix]():   {netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/9")},
	reflect.TypeFor[time.Time]():      {time.Unix(1, 0).UTC(), time.Unix(2, 0).UTC()},
	reflect.TypeFor[*time.Location](): {time.UTC, time.FixedZone("X", 60)},
}

// fill sets each part of v: slices have one element, and types that contain themselves are nested to a depth.
func fill(v reflect.Value, depth int) {
	if two, known := samples[v.Type()]; known {
		v.Set(reflect.ValueOf(two[0]))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), depth)
		}
	case reflect.Slice:
		if element := v.Type().Elem(); element == reflect.TypeFor[When]() || element == reflect.TypeFor[Matcher]() {
			depth--
		}
		if depth >= 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), depth)
		}
	}
}

// change changes each part of v, calls check, and restores the part.
func change(v reflect.Value, path string, check func(path string)) {
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	defer v.Set(old)
	if two, known := samples[v.Type()]; known {
		v.Set(reflect.ValueOf(two[1]))
		check(path)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			change(v.Field(i), path+"."+v.Type().Field(i).Name, check)
		}
		return
	case reflect.Slice:
		if v.Len() > 0 {
			change(v.Index(0), path+"[0]", check)
		}
		v.Set(reflect.Append(v.Slice3(0, v.Len(), v.Len()), reflect.Zero(v.Type().Elem())))
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Uint8:
		v.SetUint(v.Uint() + 1)
	default:
		v.SetInt(v.Int() + 1)
	}
	check(path)
}
