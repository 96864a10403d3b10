package rules

import (
	"net/netip"
	"reflect"
	"testing"
	"time"
)

// TestEqual changes each part of a limit in turn, so that no field of Limit can be missing in Equal.
func TestEqual(t *testing.T) {
	var a, b Limit
	fill(reflect.ValueOf(&a).Elem(), 2)
	fill(reflect.ValueOf(&b).Elem(), 2)
	if !a.Equal(&b) || !reflect.DeepEqual(a, b) {
		t.Fatalf("two limits with the same content are not equal:\n%+v\n%+v", a, b)
	}
	parts := 0
	change(reflect.ValueOf(&b).Elem(), "Limit", func(path string) {
		parts++
		if a.Equal(&b) || b.Equal(&a) {
			t.Errorf("limits with a different %s are equal", path)
		}
	})
	if !a.Equal(&b) || parts < 60 {
		t.Errorf("%d parts were changed, and are not restored or too few", parts)
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
