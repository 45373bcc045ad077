"""Operations on pytrees, as in `jax.tree`, and registration of classes as their nodes, through JAX's own registry."""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Final as _Final

from tinyjax.exports import publish
from tinyjax.tracing.tree import tree_util as _tree_util
from tinyjax.tree.nodes import register_attrs as register_attrs
from tinyjax.tree.nodes import register_dataclass as register_dataclass
from tinyjax.tree.nodes import register_pytree_node as register_pytree_node
from tinyjax.tree.nodes import register_pytree_node_class as register_pytree_node_class
from tinyjax.tree.nodes import register_pytree_with_keys as register_pytree_with_keys
from tinyjax.tree.nodes import register_pytree_with_keys_class as register_pytree_with_keys_class
from tinyjax.tree.nodes import register_static as register_static
from tinyjax.tree.operations import IsLeaf as IsLeaf
from tinyjax.tree.operations import KeyPath as KeyPath
from tinyjax.tree.operations import all as all
from tinyjax.tree.operations import broadcast as broadcast
from tinyjax.tree.operations import flatten as flatten
from tinyjax.tree.operations import flatten_with_path as flatten_with_path
from tinyjax.tree.operations import keystr as keystr
from tinyjax.tree.operations import leaves as leaves
from tinyjax.tree.operations import leaves_with_path as leaves_with_path
from tinyjax.tree.operations import map as map
from tinyjax.tree.operations import map_with_path as map_with_path
from tinyjax.tree.operations import reduce as reduce
from tinyjax.tree.operations import reduce_associative as reduce_associative
from tinyjax.tree.operations import structure as structure
from tinyjax.tree.operations import transpose as transpose
from tinyjax.tree.operations import unflatten as unflatten
from tinyjax.tree.raveling import Unravel as Unravel
from tinyjax.tree.raveling import ravel as ravel
from tinyjax.tree.structures import all_leaves as all_leaves
from tinyjax.tree.structures import flatten_one_level as flatten_one_level
from tinyjax.tree.structures import flatten_one_level_with_keys as flatten_one_level_with_keys
from tinyjax.tree.structures import is_tree_node as is_tree_node
from tinyjax.tree.structures import static as static
from tinyjax.tree.structures import treedef_children as treedef_children
from tinyjax.tree.structures import treedef_is_leaf as treedef_is_leaf
from tinyjax.tree.structures import treedef_tuple as treedef_tuple

if _TYPE_CHECKING:
    from jax.tree_util import DictKey as DictKey
    from jax.tree_util import FlattenedIndexKey as FlattenedIndexKey
    from jax.tree_util import GetAttrKey as GetAttrKey
    from jax.tree_util import KeyEntry as KeyEntry
    from jax.tree_util import Partial as Partial
    from jax.tree_util import PyTreeDef as PyTreeDef
    from jax.tree_util import SequenceKey as SequenceKey
else:

    def __getattr__(name: str) -> object:
        if name in _OF_JAX:
            return getattr(_tree_util(), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


#: Types of keys, structures and functions: loaded when they are used.
_OF_JAX: _Final = frozenset(
    {"DictKey", "FlattenedIndexKey", "GetAttrKey", "KeyEntry", "Partial", "PyTreeDef", "SequenceKey"}
)

publish(__name__, later=_OF_JAX)
