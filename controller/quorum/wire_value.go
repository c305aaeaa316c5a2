package quorum

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
)

var errorType = reflect.TypeFor[error]()

// flatten makes of a value what encoding/json writes: fields by name without those at their zero
// value, errors as code and sentence, byte arrays in base64.
func flatten(v reflect.Value) (any, error) {
	if v.Type() == errorType {
		if v.IsNil() {
			return nil, nil
		}
		return toWire(v.Interface().(error)), nil
	}
	switch v.Kind() {
	case reflect.Struct:
		m := make(map[string]any, v.NumField())
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				return nil, fmt.Errorf("%s.%s is not exported", v.Type().Name(), f.Name)
			}
			if v.Field(i).IsZero() {
				continue
			}
			x, err := flatten(v.Field(i))
			if err != nil {
				return nil, err
			}
			m[f.Name] = x
		}
		return m, nil
	case reflect.Slice:
		if v.IsNil() {
			return nil, nil
		}
		list := make([]any, v.Len())
		for i := range list {
			x, err := flatten(v.Index(i))
			if err != nil {
				return nil, err
			}
			list[i] = x
		}
		return list, nil
	case reflect.Map:
		if v.IsNil() {
			return nil, nil
		}
		m := make(map[string]any, v.Len())
		for it := v.MapRange(); it.Next(); {
			x, err := flatten(it.Value())
			if err != nil {
				return nil, err
			}
			m[it.Key().String()] = x
		}
		return m, nil
	case reflect.Pointer:
		if v.IsNil() {
			return nil, nil
		}
		return flatten(v.Elem())
	}
	return flattenScalar(v)
}

func flattenScalar(v reflect.Value) (any, error) {
	switch v.Kind() {
	case reflect.String:
		return v.String(), nil
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Int:
		return v.Int(), nil
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return v.Uint(), nil
	case reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			b := make([]byte, v.Len())
			reflect.Copy(reflect.ValueOf(b), v)
			return base64.RawURLEncoding.EncodeToString(b), nil
		}
	}
	return nil, fmt.Errorf("a value of type %s does not travel", v.Type())
}

// unflatten is flatten backwards: v takes what tree holds. Names that v does not have are passed over.
func unflatten(tree any, v reflect.Value) error {
	if tree == nil {
		return nil
	}
	if v.Type() == errorType {
		return unflattenError(tree, v)
	}
	switch v.Kind() {
	case reflect.Struct:
		m, ok := tree.(map[string]any)
		if !ok {
			return mismatch(tree, v)
		}
		for i := range v.NumField() {
			if x, ok := m[v.Type().Field(i).Name]; ok {
				if err := unflatten(x, v.Field(i)); err != nil {
					return fmt.Errorf("%s: %w", v.Type().Field(i).Name, err)
				}
			}
		}
		return nil
	case reflect.Slice:
		list, ok := tree.([]any)
		if !ok {
			return mismatch(tree, v)
		}
		v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
		for i, x := range list {
			if err := unflatten(x, v.Index(i)); err != nil {
				return err
			}
		}
		return nil
	case reflect.Map:
		m, ok := tree.(map[string]any)
		if !ok {
			return mismatch(tree, v)
		}
		v.Set(reflect.MakeMapWithSize(v.Type(), len(m)))
		for key, x := range m {
			elem := reflect.New(v.Type().Elem()).Elem()
			if err := unflatten(x, elem); err != nil {
				return err
			}
			v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), elem)
		}
		return nil
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return unflatten(tree, v.Elem())
	}
	return unflattenScalar(tree, v)
}

func unflattenError(tree any, v reflect.Value) error {
	m, ok := tree.(map[string]any)
	if !ok {
		return mismatch(tree, v)
	}
	var w wireError
	code, _ := m["code"].(json.Number)
	n, err := strconv.ParseInt(code.String(), 10, 16)
	if err != nil {
		return err
	}
	w.Code = int16(n)
	w.Text, _ = m["text"].(string)
	v.Set(reflect.ValueOf(w.err()))
	return nil
}

func unflattenScalar(tree any, v reflect.Value) error {
	switch x := tree.(type) {
	case string:
		switch v.Kind() {
		case reflect.String:
			v.SetString(x)
			return nil
		case reflect.Array:
			b, err := base64.RawURLEncoding.DecodeString(x)
			if err != nil || len(b) != v.Len() || v.Type().Elem().Kind() != reflect.Uint8 {
				return mismatch(tree, v)
			}
			reflect.Copy(v, reflect.ValueOf(b))
			return nil
		}
	case bool:
		if v.Kind() == reflect.Bool {
			v.SetBool(x)
			return nil
		}
	case json.Number:
		switch {
		case v.CanInt():
			n, err := strconv.ParseInt(x.String(), 10, v.Type().Bits())
			v.SetInt(n)
			return err
		case v.CanUint():
			n, err := strconv.ParseUint(x.String(), 10, v.Type().Bits())
			v.SetUint(n)
			return err
		}
	}
	return mismatch(tree, v)
}

func mismatch(tree any, v reflect.Value) error {
	return fmt.Errorf("%T where %s is wanted", tree, v.Type())
}
