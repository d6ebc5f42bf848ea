"""The columns of the tables that shops export. Statuses that only say whether a program uses a
license, or that it has expired, are active here: Keywright derives both.
"""

from keywright.provisioning.importers.columns import Preset

_ALIVE = {"inactive": "active", "expired": "active"}
_NO_END = {"0": None, "never": None, "lifetime": None}
_NO_LIMIT = {"unlimited": None}

PRESETS = {
    # The attributes of a license in Keygen's API (https://keygen.sh/docs/api/licenses/): it has no file to
    # download; tables of its licenses have these names.
    "keygen": Preset(
        columns={
            "key": "key",
            "name": "metadata.name",
            "expiry": "expires_at",
            "status": "status",
            "maxMachines": "times_activated_max",
            "metadata": "metadata",
            "created": "created_at",
            "updated": "updated_at",
        },
        words={"status": _ALIVE | {"expiring": "active", "suspended": "disabled", "banned": "disabled"}},
    ),
    # The license key object of https://docs.lemonsqueezy.com/api/license-keys; the statuses are explained at
    # https://docs.lemonsqueezy.com/help/licensing/license-api.
    "lemonsqueezy": Preset(
        columns={
            "key": "key",
            "status": "status",
            "activation_limit": "times_activated_max",
            "expires_at": "expires_at",
            "product_id": "product_id",
            "order_id": "order_id",
            "customer_id": "customer_id",
            "user_name": "metadata.name",
            "user_email": "metadata.email",
            "created_at": "created_at",
            "updated_at": "updated_at",
        },
        words={"status": _ALIVE},
    ),
    # Downloads › Tools › Export License Keys of Easy Digital Downloads, Software Licensing 3.6: csv_cols() in
    # includes/admin/classes/class-sl-export-licenses.php. The end is in seconds since 1970.
    "edd": Preset(
        columns={
            "License Key": "key",
            "License Status": "status",
            "Customer ID": "customer_id",
            "Customer Name": "metadata.name",
            "Customer Email": "metadata.email",
            "Product Name": "metadata.product",
            "Purchase Date": "created_at",
            "Expiration Date": "expires_at",
            "Activation Limit": "times_activated_max",
        },
        words={"status": _ALIVE, "expires_at": _NO_END, "times_activated_max": _NO_LIMIT},
    ),
    # The CSV of sales of Gumroad: PURCHASE_FIELDS in app/services/exports/purchase_export_service.rb of
    # https://github.com/antiwork/gumroad. Its last line, of sums, has no license key.
    "gumroad": Preset(
        columns={
            "License Key": "key",
            "License Key Enabled?": "status",
            "Purchase Date": "created_at",
            "Subscription End Date": "expires_at",
            "Order Number": "order_id",
            "Item Name": "metadata.product",
            "Variants": "metadata.variants",
            "Buyer Name": "metadata.name",
            "Purchase Email": "metadata.email",
        },
        words={"status": {"0": "disabled", "1": "active"}},
    ),
}
