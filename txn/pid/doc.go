// Package pid hands out producer ids.
package pid
