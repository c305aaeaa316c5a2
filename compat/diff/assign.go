package diff

import (
	"fmt"
	"reflect"
	"strings"
)

// assign stores an evaluated value in a field of a kmsg request. Structs start from their Default,
// so that a case names only what matters to it; an unknown field name is a mistake of the case.
func assign(to reflect.Value, v any) error {
	switch to.Kind() {
	case reflect.Pointer:
		if v == nil {
			to.SetZero()
			return nil
		}
		to.Set(reflect.New(to.Type().Elem()))
		return assign(to.Elem(), v)
	case reflect.Struct:
		return assignStruct(to, v)
	case reflect.Slice:
		return assignSlice(to, v)
	case reflect.Array:
		return assignUUID(to, v)
	case reflect.String:
		switch v := v.(type) {
		case string:
			to.SetString(v)
			return nil
		case []byte:
			to.SetString(string(v))
			return nil
		case int64:
			to.SetString(fmt.Sprint(v))
			return nil
		}
	case reflect.Bool:
		if b, ok := v.(bool); ok {
			to.SetBool(b)
			return nil
		}
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if n, ok := v.(int64); ok && !to.OverflowInt(n) {
			to.SetInt(n)
			return nil
		}
	case reflect.Uint16, reflect.Uint32:
		if n, ok := v.(int64); ok && n >= 0 && !to.OverflowUint(uint64(n)) {
			to.SetUint(uint64(n))
			return nil
		}
	}
	return fmt.Errorf("%v does not fit a %s", v, to.Type())
}

func assignStruct(to reflect.Value, v any) error {
	o, ok := v.(object)
	if !ok {
		return fmt.Errorf("%v is not an object for %s", v, to.Type())
	}
	if d, ok := to.Addr().Interface().(interface{ Default() }); ok {
		d.Default()
	}
	for i, key := range o.keys {
		field := to.FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, key) })
		if !field.IsValid() {
			return fmt.Errorf("%s has no field %s", to.Type(), key)
		}
		if err := assign(field, o.values[i]); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

func assignSlice(to reflect.Value, v any) error {
	if v == nil {
		to.SetZero()
		return nil
	}
	if to.Type().Elem().Kind() == reflect.Uint8 {
		switch v := v.(type) {
		case []byte:
			to.SetBytes(v)
			return nil
		case string:
			to.SetBytes([]byte(v))
			return nil
		}
		return fmt.Errorf("%v is not bytes", v)
	}
	list, ok := v.([]any)
	if !ok {
		return fmt.Errorf("%v is not a list for %s", v, to.Type())
	}
	s := reflect.MakeSlice(to.Type(), len(list), len(list))
	for i, item := range list {
		if err := assign(s.Index(i), item); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	to.Set(s)
	return nil
}

func assignUUID(to reflect.Value, v any) error {
	switch v := v.(type) {
	case uuid:
		reflect.Copy(to, reflect.ValueOf(v))
		return nil
	case int64:
		if v == 0 {
			to.SetZero()
			return nil
		}
	case string:
		id, err := parseUUID(v)
		if err != nil {
			return err
		}
		reflect.Copy(to, reflect.ValueOf(id))
		return nil
	}
	return fmt.Errorf("%v is not an id", v)
}
