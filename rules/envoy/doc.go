// Package envoy converts the configuration of Envoy's ratelimit service to a rules file.
//
// A request to that service has descriptors. A descriptor is an ordered list of entries, each with a key and a value,
// and has at most one rate limit: the descriptors of the configuration are a tree, and each entry selects a descriptor
// one level deeper. [Convert] converts each descriptor of the configuration that has a rate limit to a limit whose
// conditions select the same requests:
//
//	descriptors:                          limits:
//	  - key: type                           type_sms.to_number:
//	    value: sms                            when:
//	    descriptors:                            descriptor: type,to_number
//	      - key: to_number                      type: sms
//	        rate_limit:                       per: [to_number]
//	          unit: day                       allow: 5 per day
//	          requests_per_unit: 5            algorithm: fixed
//
// In a rules file, each descriptor of a request is a request of its own. [Pairs] returns its attributes: an attribute
// for each entry, and the attribute "descriptor" with the keys of all entries in their order. Since a condition on this
// attribute is part of each limit, a limit matches only descriptors with the same keys.
//
// If several descriptors of the configuration match an entry, the service takes the one with the same value, else the
// first with a matching wildcard, else the one without a value. The limits have conditions with "not" for this purpose,
// so that at most one limit matches a descriptor.
//
// [Replaced] and [OverLimit] combine the limits of the descriptors of one request.
package envoy
