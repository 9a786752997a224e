/* Targets: what stands left of "=", between "for" and "in", after "del" and "as".
 *
 * Targets look like expressions, and only the "=" after them tells. So they are parsed as expressions, then made
 * targets here: every name, attribute, subscript, tuple and list in them gets its context, everything else is refused
 * with its name. */
#include "syntax/parser.h"

const char *expression_kind(const Node *e) {
  switch (e->kind) {
    case NODE_ATTRIBUTE: return "attribute";
    case NODE_SUBSCRIPT: return "subscript";
    case NODE_STARRED: return "starred";
    case NODE_NAME: return "name";
    case NODE_LIST: return "list";
    case NODE_TUPLE: return "tuple";
    case NODE_LAMBDA: return "lambda";
    case NODE_CALL: return "function call";
    case NODE_BOOL_OP:
    case NODE_BIN_OP:
    case NODE_UNARY_OP: return "expression";
    case NODE_GENERATOR_EXP: return "generator expression";
    case NODE_YIELD:
    case NODE_YIELD_FROM: return "yield expression";
    case NODE_AWAIT: return "await expression";
    case NODE_LIST_COMP: return "list comprehension";
    case NODE_SET_COMP: return "set comprehension";
    case NODE_DICT_COMP: return "dict comprehension";
    case NODE_DICT: return "dict literal";
    case NODE_SET: return "set display";
    case NODE_JOINED_STR:
    case NODE_FORMATTED_VALUE: return "f-string expression";
    case NODE_CONSTANT:
      switch (e->Constant.value.kind) {
        case CONST_NONE: return "None";
        case CONST_TRUE: return "True";
        case CONST_FALSE: return "False";
        case CONST_ELLIPSIS: return "ellipsis";
        default: return "literal";
      }
    case NODE_COMPARE: return "comparison";
    case NODE_IF_EXP: return "conditional expression";
    case NODE_NAMED_EXPR: return "named expression";
    default: return "expression";
  }
}

const Node *invalid_target(const Node *e, TargetKind kind) {
  switch (e->kind) {
    case NODE_LIST:
    case NODE_TUPLE: {
      const NodeList *l = e->kind == NODE_LIST ? &e->List.elts : &e->Tuple.elts;
      for (int i = 0; i < l->n; i++) {
        const Node *bad = invalid_target(l->at[i], kind);
        if (bad) return bad;
      }
      return NULL;
    }
    case NODE_STARRED: return kind == DEL_TARGETS ? e : invalid_target(e->Starred.value, kind);
    case NODE_NAME:
    case NODE_ATTRIBUTE:
    case NODE_SUBSCRIPT: return NULL;
    default: return e;
  }
}

static void set_context(Node *e, ExprContext ctx) {
  stack_guard();
  switch (e->kind) {
    case NODE_LIST:
      e->List.ctx = ctx;
      for (int i = 0; i < e->List.elts.n; i++) set_context(e->List.elts.at[i], ctx);
      break;
    case NODE_TUPLE:
      e->Tuple.ctx = ctx;
      for (int i = 0; i < e->Tuple.elts.n; i++) set_context(e->Tuple.elts.at[i], ctx);
      break;
    case NODE_STARRED:
      e->Starred.ctx = ctx;
      set_context(e->Starred.value, ctx);
      break;
    case NODE_NAME: e->Name.ctx = ctx; break;
    case NODE_ATTRIBUTE: e->Attribute.ctx = ctx; break;
    case NODE_SUBSCRIPT: e->Subscript.ctx = ctx; break;
    default: break;
  }
}

void make_target(Parser *p, Node *e, TargetKind kind) {
  const Node *bad = invalid_target(e, kind);
  if (bad)
    syntax_error(p, bad->span, "cannot %s %s", kind == DEL_TARGETS ? "delete" : "assign to", expression_kind(bad));
  set_context(e, kind == DEL_TARGETS ? CTX_DEL : CTX_STORE);
}

/* star_targets: star_target !',' | star_target (',' star_target)* [',']
 * star_target:  '*' (!'*' star_target) | target
 * A target is never more than a bitwise_or, and stopping there leaves the "in" of `for x in y`. */
Node *star_targets(Parser *p) {
  const Token *first = p->tok;
  int mark = p->stack.n;
  bool tuple = false;
  do {
    if (tuple && !starts_expression(p->tok->kind) && !at(p, T_STAR)) break;
    const Token *start = p->tok;
    if (accept(p, T_STAR)) {
      Node *value = bitwise_or(p);
      Node *n = node_at(p, NODE_STARRED, start);
      n->Starred.value = value;
      push(p, n);
    } else push(p, bitwise_or(p));
    tuple |= at(p, T_COMMA);
  } while (accept(p, T_COMMA));
  Node *target;
  if (tuple) {
    NodeList elts = list_from(p, mark);
    target = node_at(p, NODE_TUPLE, first);
    target->Tuple.elts = elts;
  } else target = list_from(p, mark).at[0];
  make_target(p, target, FOR_TARGETS);
  return target;
}
