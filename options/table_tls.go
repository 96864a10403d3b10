package options

// tlsRows are the options of TLS for clients, which table contains.
var tlsRows = []row{
	{
		name: "tls-port", group: security, form: formNumber, change: immutable,
		help:  "port for TLS, 0 for none",
		field: func(o *Options) value { return number{&o.TLSPort, 0, 65535} },
	},
	{
		name: "tls-cluster-port", group: security, form: formNumber, change: immutable,
		help:  "cluster-port for TLS",
		field: func(o *Options) value { return number{&o.TLSClusterPort, 0, 65535} },
	},
	{
		name: "tls-sentinel-port", group: security, form: formNumber, change: immutable,
		help:  "sentinel-port for TLS",
		field: func(o *Options) value { return number{&o.TLSSentinelPort, 0, 65535} },
	},
	{
		name: "tls-leader-port", group: security, form: formNumber, change: immutable,
		help:  "leader-port for TLS, 0 for --tls-port",
		field: func(o *Options) value { return number{&o.TLSLeaderPort, 0, 65535} },
	},
	{
		name: "tls-http-port", group: security, form: formNumber, change: immutable,
		help:  "http-port for TLS",
		field: func(o *Options) value { return number{&o.TLSHTTPPort, 0, 65535} },
	},
	{
		name: "tls-grpc-port", group: security, form: formNumber, change: immutable,
		help:  "grpc-port for TLS",
		field: func(o *Options) value { return number{&o.TLSGRPCPort, 0, 65535} },
	},
	{
		name: "tls-cert-file", group: security, form: formPath,
		help:  "certificate of the server",
		field: func(o *Options) value { return text{&o.TLSCertFile} },
	},
	{
		name: "tls-key-file", group: security, form: formPath,
		help:  "key of tls-cert-file",
		field: func(o *Options) value { return text{&o.TLSKeyFile} },
	},
	{
		name: "tls-ca-cert-file", group: security, form: formPath,
		help:  "certificates of the CAs of clients",
		field: func(o *Options) value { return text{&o.TLSCACertFile} },
	},
	{
		name: "tls-revoked-file", group: security, form: formPath,
		help:  "revoked client certificates, \"\" for none",
		field: func(o *Options) value { return text{&o.TLSRevokedFile} },
	},
	{
		name: "tls-auth-clients", group: security, form: formName,
		help:  "client certificates: yes, no or optional",
		field: func(o *Options) value { return enum{&o.TLSAuthClients, []string{"yes", "no", "optional"}} },
	},
	{
		name: "tls-auth-clients-user", group: security, form: formName,
		help:  "CN: the certificate names the user; off",
		field: func(o *Options) value { return enum{&o.TLSAuthClientsUser, []string{"CN", "off"}} },
	},
	{
		name: "tls-protocols", group: security, form: formNames,
		help: "versions that are accepted",
		field: func(o *Options) value {
			return withReason{choices{&o.TLSProtocols, []string{"TLSv1.2", "TLSv1.3"}}, "older versions are not secure"}
		},
	},
}
