select id as customer_id, name, country, created_at
from {{ source('shop', 'customers') }}
