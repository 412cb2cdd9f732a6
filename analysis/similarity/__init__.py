"""How alike the members of a population are."""

from popsim.analysis.similarity.canonical_correlation import (
    canonical_correlations as canonical_correlations,
)
from popsim.analysis.similarity.canonical_correlation import cca_distance as cca_distance
from popsim.analysis.similarity.canonical_correlation import principal_patterns as principal_patterns
from popsim.analysis.similarity.canonical_correlation import svcca_distance as svcca_distance
from popsim.analysis.similarity.dynamical_similarity import dynamical_angle as dynamical_angle
from popsim.analysis.similarity.dynamical_similarity import eigenvalue_distance as eigenvalue_distance
from popsim.analysis.similarity.group_separation import group_permutation_test as group_permutation_test
from popsim.analysis.similarity.group_separation import group_separation as group_separation
from popsim.analysis.similarity.kernel_alignment import debiased_linear_cka as debiased_linear_cka
from popsim.analysis.similarity.kernel_alignment import linear_cka as linear_cka
from popsim.analysis.similarity.kernel_alignment import rbf_cka as rbf_cka
from popsim.analysis.similarity.matrix_correlation import matrix_permutation_test as matrix_permutation_test
from popsim.analysis.similarity.member_clusters import MemberClusters as MemberClusters
from popsim.analysis.similarity.member_clusters import cluster_members as cluster_members
from popsim.analysis.similarity.member_map import MemberMap as MemberMap
from popsim.analysis.similarity.member_map import member_map as member_map
from popsim.analysis.similarity.pairs import pairwise as pairwise
from popsim.analysis.similarity.procrustes import procrustes_angle as procrustes_angle
from popsim.analysis.similarity.procrustes import procrustes_distance as procrustes_distance
from popsim.analysis.similarity.representational_dissimilarity import (
    compare_dissimilarities as compare_dissimilarities,
)
from popsim.analysis.similarity.representational_dissimilarity import (
    representational_dissimilarities as representational_dissimilarities,
)
