"""Terms that v2 gives a policy, policies for trials, and the expiry of a license whose terms change."""

from datetime import timedelta

import pytest

from keywright.core.errors import InvalidParameters, PolicyArchived, TrialNotOffered
from keywright.licensing.licenses.rules import expiry_of_applied
from keywright.licensing.terms.model import Terms
from keywright.provisioning.policies.rules import terms_from_first_activation
from keywright.provisioning.trials import choose_policy
from tests.makers import LATER, NOW, a_license, a_policy

DAYS = Terms(valid_for_days=9)
TRIAL, OTHER = a_policy(terms=Terms(trial=True)), a_policy(id=2, terms=Terms(trial=True))
ARCHIVED = a_policy(id=3, terms=Terms(trial=True), archived_at=NOW)


def test_the_days_of_v2_begin_at_the_first_activation() -> None:
    assert terms_from_first_activation(3, None) == {"max_activations": 3, "valid_for_days": None}
    assert terms_from_first_activation(None, 9)["starts"] == "first_activation"


def test_an_expiry_stays_and_days_from_the_creation_give_one() -> None:
    assert expiry_of_applied(a_license(expires_at=LATER), DAYS) == LATER
    assert expiry_of_applied(a_license(), DAYS) == NOW + timedelta(days=9)
    assert expiry_of_applied(a_license(), Terms()) is None


def test_the_policy_of_a_trial_is_the_named_one_or_the_only_one() -> None:
    assert choose_policy([a_policy(id=9), TRIAL], None) == TRIAL
    assert choose_policy([TRIAL, ARCHIVED], None) == TRIAL
    assert choose_policy([TRIAL, OTHER], 2) == OTHER


def test_a_product_without_a_usable_policy_for_trials_offers_none() -> None:
    with pytest.raises(TrialNotOffered):
        choose_policy([a_policy()], None)
    with pytest.raises(PolicyArchived):
        choose_policy([ARCHIVED], None)
    with pytest.raises(InvalidParameters) as refusal:
        choose_policy([TRIAL, OTHER], None)
    assert refusal.value.reasons == {"policy": "is required: the product has several policies for trials"}
