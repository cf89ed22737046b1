package write

import (
	"context"
	"testing"

	"github.com/kubereflector/kubereflector/internal/ownwrites"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestDeletionTakesTheDependents(t *testing.T) {
	for name, test := range map[string]struct {
		opts      []metav1.DeleteOptions
		job, pods int
	}{
		"without options":              {nil, 0, 0},
		"options without a policy":     {[]metav1.DeleteOptions{{GracePeriodSeconds: new(int64(3))}}, 0, 0},
		"orphan":                       {[]metav1.DeleteOptions{{PropagationPolicy: new(metav1.DeletePropagationOrphan)}}, 0, 1},
		"orphan, as old programs do":   {[]metav1.DeleteOptions{{OrphanDependents: new(true)}}, 0, 1},
		"foreground":                   {[]metav1.DeleteOptions{{PropagationPolicy: new(metav1.DeletePropagationForeground)}}, 0, 0},
		"a dry run":                    {[]metav1.DeleteOptions{{DryRun: []string{metav1.DryRunAll}}}, 1, 1},
		"the version that is held":     {[]metav1.DeleteOptions{{Preconditions: &metav1.Preconditions{ResourceVersion: new("2")}}}, 0, 0},
		"the UID in the options is no": {[]metav1.DeleteOptions{{Preconditions: metav1.NewUIDPreconditions("other")}}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := reflectortest.Start(t)
			clientset, err := kubernetes.NewForConfig(s.Config())
			require.NoError(t, err)
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "j"}}
			require.NoError(t, s.Create(job))
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
			require.NoError(t, Own(job, batchv1.SchemeGroupVersion.WithKind("Job"), pod))
			require.NoError(t, s.Create(pod))

			require.NoError(t, Delete(t.Context(), clientset.BatchV1().Jobs("ns"), job, test.opts...))
			for s.CollectGarbage() {
			}
			jobs, err := reflectortest.List[*batchv1.Job](s, "")
			require.NoError(t, err)
			assert.Len(t, jobs, test.job)
			pods, err := reflectortest.List[*corev1.Pod](s, "")
			require.NoError(t, err)
			assert.Len(t, pods, test.pods)
		})
	}
}

func TestDeletionWithTheForegroundPolicyWaitsForTheDependents(t *testing.T) {
	w := newWorld(t)
	held := w.configMap(func(*corev1.ConfigMap) {})
	require.NoError(t, Delete(t.Context(), w.configMaps, held, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}))
	assert.Equal(t, []string{metav1.FinalizerDeleteDependents}, w.get().Finalizers)
}

func TestDeletionOfAVersion(t *testing.T) {
	w := newWorld(t)
	held := w.configMap(func(*corev1.ConfigMap) {})
	changed := held.DeepCopy()
	changed.Data = map[string]string{"a": "1"}
	require.NoError(t, w.server.Update(changed))
	only := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &held.ResourceVersion}}
	err := Delete(t.Context(), w.configMaps, held, only)
	assert.True(t, apierrors.IsConflict(err), "the object is still there: %v", err)
	w.get()
	assert.Nil(t, only.Preconditions.UID, "the caller's")

	require.NoError(t, w.server.Delete(changed))
	require.NoError(t, Delete(t.Context(), w.configMaps, held, only), "it is gone")
	assert.ErrorContains(t, Delete(t.Context(), w.configMaps, held, only, only), "more than one")
}

func TestDeletionShortensTheGracePeriod(t *testing.T) {
	s := reflectortest.Start(t)
	clientset, err := kubernetes.NewForConfig(s.Config())
	require.NoError(t, err)
	pods := clientset.CoreV1().Pods("ns")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{NodeName: "n"}}
	require.NoError(t, s.Create(pod))
	require.NoError(t, Delete(t.Context(), pods, pod))
	require.NoError(t, s.Get(pod))
	require.EqualValues(t, 30, *pod.DeletionGracePeriodSeconds)
	for seconds, requests := range map[int64]int{40: 0, 30: 0, 20: 1} {
		s.ForgetRequests()
		require.NoError(t, Delete(t.Context(), pods, pod, metav1.DeleteOptions{GracePeriodSeconds: &seconds}))
		assert.Len(t, s.Requests(), requests, "%d seconds", seconds)
	}
	require.NoError(t, s.Get(pod))
	assert.EqualValues(t, 20, *pod.DeletionGracePeriodSeconds)
}

// reports counts what is reported to a reconciler.
type reports int

func (r *reports) Record(ownwrites.Write) { *r++ }

func TestADryRunOfADeletionIsNotReported(t *testing.T) {
	w := newWorld(t)
	held := w.configMap(func(*corev1.ConfigMap) {})
	var told reports
	ctx := context.WithValue(t.Context(), ownwrites.Key{}, &told)
	dryRun := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	require.NoError(t, Delete(ctx, w.configMaps, held, dryRun))
	assert.Zero(t, told)
	require.NoError(t, w.server.Delete(held))
	require.NoError(t, Delete(ctx, w.configMaps, held, dryRun), "it is gone")
	assert.EqualValues(t, 1, told)
}
