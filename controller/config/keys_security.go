package config

// securityKeys are the settings of TLS.
var securityKeys = []Key{
	{
		Name: "authorizer.class.name", Type: String, Default: "",
		Doc: "Kafka's access control. It is not served yet: a value is refused unless " +
			"allow.everyone.if.no.acl.found is true.",
	},
	{
		Name: "ssl.cipher.suites", Type: List, Default: "",
		Doc: "The cipher suites of TLS 1.2, by their IANA names; empty means Go's defaults.",
	},
	{
		Name: "ssl.client.auth", Type: String, Default: "none",
		Valid: oneOf("required", "requested", "none"),
		Doc:   "Whether clients must show a certificate: 'required', 'requested' or 'none'.",
	},
	{
		Name: "ssl.enabled.protocols", Type: List, Default: "TLSv1.2,TLSv1.3",
		Doc: "The TLS versions taken: TLSv1.2, TLSv1.3.",
	},
	{
		Name: "ssl.key.password", Type: Password, Null: true,
		Doc: "The password of the private key: encrypted PEM keys are refused, with the way out.",
	},
	{
		Name: "ssl.keystore.certificate.chain", Type: Password, Null: true,
		Doc: "The broker's certificate chain, as PEM text.",
	},
	{
		Name: "ssl.keystore.key", Type: Password, Null: true,
		Doc: "The broker's private key, as PEM text.",
	},
	{
		Name: "ssl.keystore.location", Type: String, Null: true,
		Doc: "The PEM file with the broker's private key and certificate chain; read again when it " +
			"changes.",
	},
	{
		Name: "ssl.keystore.type", Type: String, Default: "PEM",
		Doc: "The form of the keystore: PEM. Java's JKS and PKCS12 are refused.",
	},
	{
		Name: "ssl.truststore.certificates", Type: Password, Null: true,
		Doc: "The certificates that client certificates are checked against, as PEM text.",
	},
	{
		Name: "ssl.truststore.location", Type: String, Null: true,
		Doc: "The PEM file with the certificates that client certificates are checked against.",
	},
	{
		Name: "ssl.truststore.type", Type: String, Default: "PEM",
		Doc: "The form of the truststore: PEM.",
	},
}
