// Package answer has the errors of an API server's answers that a client or a reflector cannot use.
// errors.As finds them in what [reflector.State], error handlers and the methods of a [client.Resource]
// report:
//
//	var decoding *answer.DecodeError
//	if errors.As(err, &decoding) {
//		fmt.Println(decoding.Namespace, decoding.Name, decoding.Field)
//	}
package answer
