package controllerruntime_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// secretWebhook is a webhook as controller-runtime defines it.
type secretWebhook struct{}

var (
	_ admission.Defaulter[*corev1.Secret] = secretWebhook{}
	_ admission.Validator[*corev1.Secret] = secretWebhook{}
)

func (secretWebhook) Default(_ context.Context, s *corev1.Secret) error {
	metav1.SetMetaDataLabel(&s.ObjectMeta, "team", "none")
	return nil
}

func (secretWebhook) ValidateCreate(context.Context, *corev1.Secret) (admission.Warnings, error) {
	return nil, nil
}

func (secretWebhook) ValidateUpdate(_ context.Context, old, new *corev1.Secret) (admission.Warnings, error) {
	if old.Type != new.Type {
		return nil, errors.New("the type stays")
	}
	return nil, nil
}

func (secretWebhook) ValidateDelete(context.Context, *corev1.Secret) (admission.Warnings, error) {
	return nil, nil
}

// The API server in memory calls an operator's webhooks in the process, so a test or a simulation
// needs no port and no certificates. The generic function is for any kind.
func Example_webhook() {
	server, err := reflectortest.NewServer(reflectortest.WithAdmission(admit[*corev1.Secret](secretWebhook{}, secretWebhook{})))
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "token"}}
	fmt.Println(server.Create(secret), secret.Labels)
	secret.Type = corev1.SecretTypeTLS
	fmt.Println(server.Update(secret))
	// Output:
	// <nil> map[team:none]
	// admission webhook "reflectortest" denied the request: the type stays
}

func admit[T client.Object](defaulter admission.Defaulter[T], validator admission.Validator[T]) func(context.Context, *reflectortest.Admission[T]) error {
	return func(ctx context.Context, a *reflectortest.Admission[T]) (err error) {
		switch a.Operation {
		case admissionv1.Delete:
			_, err = validator.ValidateDelete(ctx, a.Old)
			return err
		case admissionv1.Create:
			if err = defaulter.Default(ctx, a.Object); err == nil {
				_, err = validator.ValidateCreate(ctx, a.Object)
			}
			return err
		}
		if err = defaulter.Default(ctx, a.Object); err == nil {
			_, err = validator.ValidateUpdate(ctx, a.Old, a.Object)
		}
		return err
	}
}
