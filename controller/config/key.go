package config

// Type is a key's type, with the numbers that DescribeConfigs sends (KIP-569).
type Type int8

// The types of Kafka's ConfigDef.
const (
	Unknown  Type = 0
	Bool     Type = 1
	String   Type = 2
	Int      Type = 3
	Short    Type = 4
	Long     Type = 5
	Double   Type = 6
	List     Type = 7
	Class    Type = 8
	Password Type = 9
)

// Source says which layer a value came from, with the numbers that DescribeConfigs sends.
type Source int8

// The sources of DescribeConfigs that the broker uses.
const (
	SourceTopic          Source = 1
	SourceDynamicBroker  Source = 2
	SourceDynamicDefault Source = 3
	SourceStatic         Source = 4
	SourceDefault        Source = 5
)

// Key is one row of the registry.
type Key struct {
	Name string
	Type Type
	// Default is the text of the default value; Null means that the default is no value at all.
	Default string
	Null    bool
	// Check reports what is wrong with a value of the right type; nil accepts all.
	Check func(value string) error
	// Doc is the sentence that DescribeConfigs and the documentation show.
	Doc string
	// Synonyms are the broker keys that give a topic key its default, first wins.
	Synonyms  []string
	Dynamic   bool // can be altered at run time
	Inert     bool // known to Kafka, without effect here
	Sensitive bool // the value is never shown
	Ours      bool // not one of Kafka's
}

// TopicKeys gives all topic keys, sorted by name.
func TopicKeys() []Key { panic("todo") }

// BrokerKeys gives all broker keys, sorted by name.
func BrokerKeys() []Key { panic("todo") }

// TopicKey finds a topic key by name.
func TopicKey(name string) (*Key, bool) { panic("todo") }

// BrokerKey finds a broker key by name.
func BrokerKey(name string) (*Key, bool) { panic("todo") }
