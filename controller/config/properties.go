package config

import "io"

// ParseProperties reads a .properties file in Java's format.
func ParseProperties(r io.Reader) (map[string]string, error) { panic("todo") }

// FromEnv gives the keys that KAFKA_ variables set, by Apache's rule: KAFKA_ is cut off, "___" is
// '-', "__" is '_', "_" is '.'.
func FromEnv(environ []string) map[string]string { panic("todo") }
