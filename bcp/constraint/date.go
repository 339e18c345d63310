package constraint

import (
	"errors"
	"reflect"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/bcpmesh/bcpmesh/bcp"
)

const dateName = "date"

var dateType = cel.ObjectType(dateName)

// opaque is what values are made of that nothing converts.
type opaque struct{}

var errConversion = errors.New("the value cannot be converted")

// ConvertToNative implements [ref.Val].
func (opaque) ConvertToNative(reflect.Type) (any, error) { return nil, errConversion }

// ConvertToType implements [ref.Val].
func (opaque) ConvertToType(ref.Type) ref.Val { return types.WrapErr(errConversion) }

// date is a [bcp.Date] as CEL sees it: an object with month, day and perhaps
// year. Two dates are equal where all three are.
type date struct {
	bcp.Date
	opaque
}

// Equal implements [ref.Val].
func (d date) Equal(other ref.Val) ref.Val {
	o, ok := other.(date)
	return types.Bool(ok && d.Date == o.Date)
}

// Type implements [ref.Val].
func (d date) Type() ref.Type { return dateType }

// Value implements [ref.Val].
func (d date) Value() any { return d }

// dateProvider adds the type of dates to those of a registry.
type dateProvider struct{ types.Provider }

// FindStructType implements [types.Provider].
func (p dateProvider) FindStructType(name string) (*types.Type, bool) {
	if name == dateName {
		return types.NewTypeTypeWithParam(dateType), true
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldNames implements [types.Provider].
func (p dateProvider) FindStructFieldNames(name string) ([]string, bool) {
	if name == dateName {
		return []string{"year", "month", "day"}, true
	}
	return p.Provider.FindStructFieldNames(name)
}

// FindStructFieldType implements [types.Provider].
func (p dateProvider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if name != dateName {
		return p.Provider.FindStructFieldType(name, field)
	}
	var part func(bcp.Date) int
	switch field {
	case "year":
		part = func(d bcp.Date) int { return d.Year }
	case "month":
		part = func(d bcp.Date) int { return d.Month }
	case "day":
		part = func(d bcp.Date) int { return d.Day }
	default:
		return nil, false
	}
	return &types.FieldType{
		Type: cel.IntType,
		IsSet: func(target any) bool {
			d, ok := target.(date)
			return ok && part(d.Date) != 0
		},
		GetFrom: func(target any) (any, error) {
			d, ok := target.(date)
			if !ok {
				return nil, errConversion
			}
			return types.Int(part(d.Date)), nil
		},
	}, true
}

// NewValue implements [types.Provider]: an expression cannot make objects.
func (p dateProvider) NewValue(string, map[string]ref.Val) ref.Val {
	return types.WrapErr(errors.New("objects are not allowed"))
}
