// Package batch is Kafka's record batch, format 2 ("magic 2"): it is read, checked and patched in
// place.
package batch
