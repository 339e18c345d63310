package kernel

import (
	"errors"
	"fmt"
	"slices"
)

// TypeKind is the kind of a [Type]. No value is of the zero value.
type TypeKind string

// The kinds of types.
const (
	ObjectType  TypeKind = "object"
	ArrayType   TypeKind = "array"
	StringType  TypeKind = "string"
	IntegerType TypeKind = "integer"
	NumberType  TypeKind = "number"
	BooleanType TypeKind = "boolean"
	SealedType  TypeKind = "sealed" // a string that nobody reads but a tool that takes it, and Readers
	EnumType    TypeKind = "enum"
)

// Type is a closed type: what a tool takes or gives, or what a q_parse makes. A
// value of it is exactly what it says, with nothing coerced and nothing besides.
// A Type is not changed once a kernel has it.
type Type struct {
	Kind     TypeKind
	Nullable bool        // null is a value, too
	Fields   []TypeField // of an object
	Items    *Type       // of an array
	// Limited says that MaxItems bounds an array; MaxItems may be 0.
	Limited  bool
	MaxItems int
	// MinLength and MaxLength are those of a string in code points; 0 means no bound.
	MinLength, MaxLength int
	// Format of a string: only its canonical spelling is a value.
	Format    Format
	Min, Max  *int64   // of an integer; of a number they bound it, too
	Low, High *Value   // bounds of a number that have a fraction
	Values    []string // of an enum
	// Description is the operator's: planners see it.
	Description string
	// Critical says of an argument that it decides who gets something or what is changed:
	// where it comes from, a rule decides alone.
	Critical bool
	// Accepts says of an argument, or of the elements of one that is a list, that a sealed
	// value may go into it: they are strings. Hosts are
	// those that a URI may be of, over https; none is any.
	Accepts bool
	Hosts   []string

	width  Width // where the BCP counts (see schemaType)
	priced bool
	seals  bool // it or a part of it is sealed
}

// TypeField is one property of an object.
type TypeField struct {
	Name     string
	Type     *Type
	Optional bool
}

// Width returns how many bits a value of the type can carry. It counts each
// time; a kernel keeps the result.
func (t *Type) Width() Width {
	if t == nil {
		return Unbounded
	}
	if t.priced {
		return t.width
	}
	return log2(t.count())
}

// settled returns a copy that knows the widths of itself and its parts, and what is sealed.
func (t *Type) settled() *Type {
	if t == nil {
		return nil
	}
	c := *t
	c.Items = t.Items.settled()
	c.Fields = slices.Clone(t.Fields)
	for i := range c.Fields {
		c.Fields[i].Type = c.Fields[i].Type.settled()
	}
	c.priced = false
	c.width, c.seals = t.Width(), c.sealed()
	c.priced = true
	return &c
}

// field returns a property of an object, or nil.
func (t *Type) field(name string) *TypeField {
	return find(t.Fields, func(f *TypeField) bool { return f.Name == name })
}

// find returns the first of a list that is it, or nil.
func find[T any](list []T, is func(*T) bool) *T {
	for i := range list {
		if is(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

// Has reports whether a value is of the type.
func (t *Type) Has(v *Value) bool {
	if t == nil || v == nil {
		return false
	}
	if v.kind == NullValue {
		return t.Nullable
	}
	switch t.Kind {
	case ObjectType:
		return t.hasObject(v)
	case ArrayType:
		return v.kind == ListValue && (!t.Limited || len(v.list) <= t.MaxItems) &&
			!slices.ContainsFunc(v.list, func(e Value) bool { return !t.Items.Has(&e) })
	case StringType, SealedType:
		return v.kind == TextValue && t.hasText(v.text)
	case IntegerType:
		return v.kind == IntValue && (t.Min == nil || v.n >= *t.Min) && (t.Max == nil || v.n <= *t.Max)
	case NumberType:
		return t.hasNumber(v)
	case BooleanType:
		return v.kind == BoolValue
	case EnumType:
		return v.kind == TextValue && slices.Contains(t.Values, v.text)
	default:
		return false
	}
}

func (t *Type) hasObject(v *Value) bool {
	if v.kind != ObjectValue {
		return false
	}
	for i := range t.Fields {
		f := &t.Fields[i]
		if member := v.member(f.Name); member == nil && !f.Optional || member != nil && !f.Type.Has(member) {
			return false
		}
	}
	return !slices.ContainsFunc(v.keys, func(key string) bool { return t.field(key) == nil })
}

func (t *Type) hasNumber(v *Value) bool {
	const most = 999_999_999_999_999 // of 15 digits
	switch v.kind {
	case DecimalValue:
	case IntValue:
		if v.n > most || v.n < -most {
			return false
		}
	default:
		return false
	}
	d := v.decimal()
	if t.Low != nil && compareDecimals(d, t.Low.decimal()) < 0 || t.High != nil && compareDecimals(d, t.High.decimal()) > 0 {
		return false
	}
	return (t.Min == nil || d.Whole >= *t.Min) && (t.Max == nil || d.Whole < *t.Max || d.Whole == *t.Max && d.Fraction == 0)
}

// accepts reports whether some value of type from is of type t: what a plan may
// hand over. Whether the very value is, the gate says.
func (t *Type) accepts(from *Type) bool {
	if t == nil || from == nil {
		return true // a sub-run's result without a schema
	}
	if from.sealed() {
		// Whole, and nowhere else. The gate says whether the value fits.
		return t.Accepts && from.Kind == SealedType || t.Kind == ArrayType && from.Kind == ArrayType && t.Items.accepts(from.Items)
	}
	if t.Nullable && from.Nullable {
		return true
	}
	switch t.Kind {
	case ObjectType:
		return from.Kind == ObjectType && t.acceptsFields(from)
	case ArrayType:
		return from.Kind == ArrayType && t.Items.accepts(from.Items)
	case StringType:
		return from.Kind == StringType || from.Kind == EnumType
	case EnumType:
		return from.Kind == StringType || from.Kind == EnumType && slices.ContainsFunc(from.Values, func(s string) bool { return slices.Contains(t.Values, s) })
	case IntegerType:
		return from.Kind == IntegerType && t.overlaps(from)
	case NumberType:
		return (from.Kind == NumberType || from.Kind == IntegerType) && t.overlaps(from)
	default:
		return from.Kind == t.Kind
	}
}

func (t *Type) acceptsFields(from *Type) bool {
	for i := range t.Fields {
		f := from.field(t.Fields[i].Name)
		switch {
		case f == nil && !t.Fields[i].Optional, f != nil && f.Optional && !t.Fields[i].Optional, f != nil && !t.Fields[i].Type.accepts(f.Type):
			return false
		}
	}
	return !slices.ContainsFunc(from.Fields, func(f TypeField) bool { return t.field(f.Name) == nil })
}

// sealed reports whether a type, or a part of it, is sealed.
func (t *Type) sealed() bool {
	switch {
	case t == nil:
		return false
	case t.priced:
		return t.seals
	default:
		return t.Kind == SealedType || slices.ContainsFunc(t.parts(), (*Type).sealed)
	}
}

// takesSealed reports whether a sealed value may go into an argument of the type.
func (t *Type) takesSealed() bool {
	return t.Accepts || t.Kind == ArrayType && t.Items.Accepts
}

// setBound takes a bound of a number, which may have a fraction.
func (t *Type) setBound(whole **int64, exact **Value, v *Value) bool {
	switch {
	case v.kind == IntValue:
		*whole = &v.n
	case v.kind == DecimalValue && t.Kind == NumberType:
		*exact = v
	default:
		return false
	}
	return true
}

// overlaps reports whether the bounds of two types of numbers have one in common.
func (t *Type) overlaps(o *Type) bool {
	below := func(max, min *int64) bool { return max != nil && min != nil && *max < *min }
	return !below(t.Max, o.Min) && !below(o.Max, t.Min)
}

// Errors of types, wrapped with the place.
var errType = errors.New("expected a closed type: object, array, string, integer, number, boolean, sealed or enum")

// ParseType reads a type as JSON Schema spells it, in the part that is closed:
// type, properties, required (all if it is absent), items, maxItems, minLength,
// maxLength, format (email, date, uri), minimum, maximum, enum of texts, const,
// nullable, additionalProperties: false, description; and, which are ours, critical, the
// type sealed, of whose strings accepts says where they may go, and hosts.
// Anything else is refused, by its place and key.
func ParseType(b []byte) (*Type, error) {
	v, err := ParseValue(b)
	if err != nil {
		return nil, errType
	}
	t, err := parseTypeValue(&v, "")
	if err != nil {
		return nil, err
	}
	return t, nil
}

func typeError(at, what string) error { return fmt.Errorf("%q: %s: %w", at, what, errType) }

var typeKeys = map[TypeKind][]string{
	ObjectType: {"properties", "required", "additionalProperties"}, ArrayType: {"items", "maxItems"}, StringType: {"minLength", "maxLength", "format", "accepts", "hosts"},
	SealedType:  {"minLength", "maxLength", "format"},
	IntegerType: {"minimum", "maximum"}, NumberType: {"minimum", "maximum"}, BooleanType: nil, EnumType: {"enum"},
}

func parseTypeValue(v *Value, at string) (*Type, error) {
	if v.kind != ObjectValue {
		return nil, typeError(at, "no object")
	}
	if only := v.member("const"); only != nil {
		return parseConst(v, only, at)
	}
	t := &Type{Kind: EnumType}
	if word := v.member("type"); word != nil {
		if t.Kind = TypeKind(word.text); t.Kind == EnumType {
			t.Kind = ""
		} else if t.Kind == StringType && v.member("enum") != nil {
			t.Kind = EnumType
		}
	}
	if _, known := typeKeys[t.Kind]; !known || t.Kind == EnumType && v.member("enum") == nil {
		return nil, typeError(at, "no type that is known")
	}
	for i, key := range v.keys {
		if !slices.Contains(commonKeys, key) && !slices.Contains(typeKeys[t.Kind], key) {
			return nil, typeError(at, fmt.Sprintf("key %q", key))
		}
		if err := t.set(key, &v.list[i], at); err != nil {
			return nil, err
		}
	}
	return t, t.complete(v, at)
}

// commonKeys are those of all kinds.
var commonKeys = []string{"type", "description", "nullable", "critical"}

// parseConst reads the type of one value: a text or an integer.
func parseConst(v, only *Value, at string) (*Type, error) {
	t := &Type{Kind: EnumType, Values: []string{only.text}}
	if only.kind == IntValue {
		t = &Type{Kind: IntegerType, Min: &only.n, Max: &only.n}
	} else if only.kind != TextValue {
		return nil, typeError(at, "const")
	}
	for i, key := range v.keys {
		switch word := &v.list[i]; {
		case key == "type" && (word.text != "string" || t.Kind != EnumType) && word.text != string(t.Kind), key != "const" && !slices.Contains(commonKeys, key):
			return nil, typeError(at, fmt.Sprintf("key %q", key))
		case key != "const":
			if err := t.set(key, word, at); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

// set takes one key.
func (t *Type) set(key string, v *Value, at string) error {
	number := func(least int64) bool { return v.kind == IntValue && v.n >= least }
	ok := false
	switch key {
	case "type":
		ok = v.kind == TextValue
	case "description":
		ok, t.Description = v.kind == TextValue && len(v.text) <= maxDescription, v.text
	case "nullable":
		ok, t.Nullable = v.kind == BoolValue, v.flag
	case "critical":
		ok, t.Critical = v.kind == BoolValue, v.flag
	case "maxItems":
		ok = number(0) && v.n <= MaxContent
		t.Limited, t.MaxItems = true, int(v.n)
	case "maxLength":
		ok = number(1) && v.n <= MaxContent
		t.MaxLength = int(v.n)
	case "minLength":
		ok = number(0) && v.n <= MaxContent
		t.MinLength = int(v.n)
	case "format":
		t.Format = Format(v.text)
		ok = slices.Contains([]Format{Email, Date, URI}, t.Format)
	case "minimum":
		ok = t.setBound(&t.Min, &t.Low, v)
	case "maximum":
		ok = t.setBound(&t.Max, &t.High, v)
	case "accepts":
		ok, t.Accepts = v.text == string(SealedType), true
	case "hosts":
		ok = v.kind == ListValue && len(v.list) > 0
		for i := range v.list {
			ok = ok && isHost(v.list[i].text)
			t.Hosts = append(t.Hosts, v.list[i].text)
		}
	case "additionalProperties":
		ok = v.kind == BoolValue && !v.flag
	case "enum":
		ok = v.kind == ListValue && len(v.list) > 0
		for i := range v.list {
			ok = ok && v.list[i].kind == TextValue && !slices.Contains(t.Values, v.list[i].text)
			t.Values = append(t.Values, v.list[i].text)
		}
	case "items":
		items, err := parseTypeValue(v, at+"[]")
		t.Items = items
		return err
	case "properties":
		ok = v.kind == ObjectValue
		for i, name := range v.keys {
			field, err := parseTypeValue(&v.list[i], at+"."+name)
			if err != nil {
				return err
			}
			t.Fields = append(t.Fields, TypeField{Name: name, Type: field})
			ok = ok && IsStepID(name)
		}
	case "required":
		ok = v.kind == ListValue
	}
	if !ok {
		return typeError(at, key)
	}
	return nil
}

// complete checks what takes several keys.
func (t *Type) complete(v *Value, at string) error {
	switch {
	case t.Kind == ArrayType && t.Items == nil:
		return typeError(at, "an array needs items")
	case t.Min != nil && t.Max != nil && *t.Min > *t.Max:
		return typeError(at, "minimum is above maximum")
	case (t.Hosts != nil || t.Accepts) && (t.Format == URI) != (t.Hosts != nil):
		return typeError(at, "hosts are of a uri, and one that accepts what is sealed has them")
	case t.MaxLength > 0 && t.MinLength > t.MaxLength:
		return typeError(at, "minLength is above maxLength")
	}
	required := v.member("required")
	if required == nil {
		return nil
	}
	for i := range t.Fields {
		t.Fields[i].Optional = !slices.ContainsFunc(required.list, func(name Value) bool { return name.text == t.Fields[i].Name })
	}
	for i := range required.list {
		if name := &required.list[i]; name.kind != TextValue || t.field(name.text) == nil {
			return typeError(at, "required names no property")
		}
	}
	return nil
}

// AppendJSONSchema appends the type as JSON Schema, in the spelling that
// [ParseType] reads.
func (t *Type) AppendJSONSchema(dst []byte) []byte {
	v := t.schema()
	return v.AppendJSON(dst)
}

func (t *Type) schema() Value {
	if t == nil {
		return object()
	}
	s := object(member{"type", Text(string(t.Kind))})
	switch t.Kind {
	case EnumType:
		s = object(member{"enum", texts(t.Values)})
	case ArrayType:
		s.add("items", t.Items.schema())
		if t.Limited {
			s.add("maxItems", Int(int64(t.MaxItems)))
		}
	case ObjectType:
		properties, required := object(), List()
		for i := range t.Fields {
			f := &t.Fields[i]
			properties.add(f.Name, f.Type.schema())
			if !f.Optional {
				required.list = append(required.list, Text(f.Name))
			}
		}
		s.add("properties", properties)
		s.add("required", required)
		s.add("additionalProperties", Bool(false))
	}
	flags := map[string]bool{"nullable": t.Nullable, "critical": t.Critical}
	words := map[string]string{"format": string(t.Format), "description": t.Description}
	if t.Accepts {
		words["accepts"] = string(SealedType)
	}
	if t.Hosts != nil {
		s.add("hosts", texts(t.Hosts))
	}
	addSet(&s, map[string]int{"minLength": t.MinLength, "maxLength": t.MaxLength}, func(n int) Value { return Int(int64(n)) })
	addSet(&s, map[string]*int64{"minimum": t.Min, "maximum": t.Max}, func(n *int64) Value { return Int(*n) })
	addSet(&s, map[string]*Value{"minimum": t.Low, "maximum": t.High}, func(v *Value) Value { return *v })
	addSet(&s, words, Text)
	addSet(&s, flags, Bool)
	return s
}

// addSet adds the members that are set.
func addSet[T comparable](s *Value, members map[string]T, value func(T) Value) {
	for key, of := range members {
		if of != *new(T) {
			s.add(key, value(of))
		}
	}
}

// member is a key of an object that is being made.
type member struct {
	key   string
	value Value
}

// object returns an object of members with different keys.
func object(members ...member) Value {
	v := Value{kind: ObjectValue}
	for _, m := range members {
		v.add(m.key, m.value)
	}
	return v
}

// add adds a member to an object that is being made. The key must be new.
func (v *Value) add(key string, value Value) {
	i, _ := slices.BinarySearch(v.keys, key)
	v.keys, v.list = slices.Insert(v.keys, i, key), slices.Insert(v.list, i, value)
}

func texts[T ~string](list []T) Value {
	v := List()
	for _, s := range list {
		v.list = append(v.list, Text(string(s)))
	}
	return v
}
