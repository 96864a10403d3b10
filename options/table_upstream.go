package options

import "time"

// upstreamRows are the options of a sidecar, which table contains.
var upstreamRows = []row{
	{
		name: "upstream", group: upstream, form: formAddresses, change: immutable,
		help:  "run as a sidecar of this server or cluster",
		field: func(o *Options) value { return upstreams{&o.Upstream} },
	},
	{
		name: "upstream-user", group: upstream, form: formText, change: immutable,
		help:  "user for the upstream, \"\" for default",
		field: func(o *Options) value { return text{&o.UpstreamUser} },
	},
	{
		name: "upstream-password-file", group: upstream, form: formPath, change: protected,
		help:  "file with the password of that user",
		field: func(o *Options) value { return text{&o.UpstreamPasswordFile} },
	},
	{
		name: "upstream-tls", group: upstream, form: formYesNo, change: immutable,
		help:  "connect to the upstream with TLS",
		field: func(o *Options) value { return boolean{&o.UpstreamTLS} },
	},
	{
		name: "upstream-tls-ca-cert-file", group: upstream, form: formPath, change: protected,
		help:  "CAs of the upstream, \"\" for those of the system",
		field: func(o *Options) value { return text{&o.UpstreamTLSCACertFile} },
	},
	{
		name: "upstream-tls-cert-file", group: upstream, form: formPath, change: protected,
		help:  "certificate for the upstream, \"\" for none",
		field: func(o *Options) value { return text{&o.UpstreamTLSCertFile} },
	},
	{
		name: "upstream-tls-key-file", group: upstream, form: formPath, change: protected,
		help:  "key of that certificate",
		field: func(o *Options) value { return text{&o.UpstreamTLSKeyFile} },
	},
	{
		name: "upstream-tls-server-name", group: upstream, form: formText, change: immutable,
		help:  "name in its certificate, \"\" for the host",
		field: func(o *Options) value { return text{&o.UpstreamTLSServerName} },
	},
	{
		name: "upstream-timeout", group: upstream, form: formMillis, change: immutable,
		help:  "maximum wait for a reply of the upstream",
		field: func(o *Options) value { return span{&o.UpstreamTimeout, time.Millisecond, 1, 60_000} },
	},
	{
		name: "upstream-leases", group: upstream, form: formName, change: immutable,
		help:  "leases of units: strict, relaxed or off",
		field: func(o *Options) value { return enum{&o.UpstreamLeases, []string{"strict", "relaxed", "off"}} },
	},
	{
		name: "upstream-lease", group: upstream, form: formMillis, change: immutable,
		help:  "maximum time for which units are leased",
		field: func(o *Options) value { return span{&o.UpstreamLease, time.Millisecond, 20, 1000} },
	},
	{
		name: "upstream-lessee", group: upstream, form: formText, change: immutable,
		help:  "name in leases, \"\" for a random one",
		field: func(o *Options) value { return lesseeName{&o.UpstreamLessee} },
	},
	{
		name: "upstream-away", group: upstream, form: formName,
		help:  "requests without a reply: closed, open or local",
		field: func(o *Options) value { return enum{&o.UpstreamAway, []string{"closed", "open", "local"}} },
	},
	{
		name: "upstream-share", group: upstream, form: formNumber,
		help:  "part of each limit for local, 1/n for n sidecars",
		field: func(o *Options) value { return fraction{&o.UpstreamShare} },
	},
}
