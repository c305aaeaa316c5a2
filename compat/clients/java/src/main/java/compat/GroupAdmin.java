package compat;

import static compat.Check.fails;
import static compat.Check.holds;
import static compat.Check.same;
import static compat.Check.soon;
import static compat.Check.that;

import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ClassicGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.GroupSubscribedToTopicException;
import org.apache.kafka.common.errors.UnknownMemberIdException;

/** Groups and their offsets through the admin client. */
final class GroupAdmin {
  private static final TopicPartition ZERO = new TopicPartition("watched", 0);
  private static final TopicPartition ONE = new TopicPartition("watched", 1);

  private final Broker broker;
  private final Admin admin;

  GroupAdmin(Broker broker) {
    this.broker = broker;
    this.admin = broker.admin;
  }

  void run() throws Exception {
    broker.topic("watched", 2);
    broker.fill("watched", "a", "b", "c");
    that("a group in use, through the admin client", this::inUse);
    that("listGroups, listConsumerGroups: by state, type and protocol", this::list);
    that("describeConsumerGroups: one that is empty, one that is not there", this::describe);
    that("alterConsumerGroupOffsets, listConsumerGroupOffsets", this::offsets);
    that("deleteConsumerGroupOffsets", this::deleteOffsets);
    that("deleteConsumerGroups", this::delete);
    that("removeMembersFromConsumerGroup: static members", this::remove);
  }

  private void inUse() throws Exception {
    try (Member m = new Member(broker.consumer("group.id", "used", "client.id", "me", "group.instance.id", "i"), "watched")) {
      soon("it has all and has read", 15, () -> m.held.size() == 2 && m.values.size() == 3);
      soon("it has committed", 5, () -> committed("used").containsKey(ZERO));
      ConsumerGroupDescription d = admin.describeConsumerGroups(List.of("used")).all().get().get("used");
      same(GroupState.STABLE, d.groupState());
      same(GroupType.CLASSIC, d.type());
      same("range", d.partitionAssignor());
      same(broker.address, d.coordinator().host() + ":" + d.coordinator().port());
      MemberDescription one = d.members().iterator().next();
      same("me", one.clientId());
      same("/127.0.0.1", one.host());
      same(Optional.of("i"), one.groupInstanceId());
      same(Set.of(ZERO, ONE), one.assignment().topicPartitions());
      ClassicGroupDescription c = admin.describeClassicGroups(List.of("used")).all().get().get("used");
      same("consumer", c.protocol());
      same("range", c.protocolData());
      same(3L, committed("used").get(ZERO).offset());
      fails(GroupNotEmptyException.class, () -> admin.deleteConsumerGroups(List.of("used")).all().get());
      fails(GroupSubscribedToTopicException.class, () -> admin.deleteConsumerGroupOffsets("used", Set.of(ZERO)).all().get());
      fails(UnknownMemberIdException.class,
          () -> admin.alterConsumerGroupOffsets("used", Map.of(ZERO, new OffsetAndMetadata(1))).all().get());
    }
  }

  private Map<TopicPartition, OffsetAndMetadata> committed(String group) throws Exception {
    return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
  }

  private void list() throws Exception {
    admin.alterConsumerGroupOffsets("idle", Map.of(ZERO, new OffsetAndMetadata(1))).all().get();
    holds(ids(admin.listGroups().all().get()).containsAll(Set.of("idle", "used")), "not all are listed");
    GroupListing idle = admin.listGroups().all().get().stream().filter(g -> g.groupId().equals("idle")).findAny().get();
    same(Optional.of(GroupState.EMPTY), idle.groupState());
    same(Optional.of(GroupType.CLASSIC), idle.type());
    holds(ids(admin.listGroups(ListGroupsOptions.forConsumerGroups()).all().get()).contains("used"), "not a consumer group");
    Set<String> empty = ids(admin.listGroups(new ListGroupsOptions().inGroupStates(Set.of(GroupState.EMPTY))).all().get());
    holds(empty.contains("idle"), empty);
    same(Set.of(), ids(admin.listGroups(new ListGroupsOptions().withTypes(Set.of(GroupType.CONSUMER))).all().get()));
    same(Set.of(), ids(admin.listGroups(new ListGroupsOptions().withProtocolTypes(Set.of("connect"))).all().get()));
  }

  private static Set<String> ids(Collection<GroupListing> groups) {
    Set<String> ids = new HashSet<>();
    groups.forEach(g -> ids.add(g.groupId()));
    return ids;
  }

  private void describe() throws Exception {
    same(GroupState.EMPTY, admin.describeConsumerGroups(List.of("idle")).all().get().get("idle").groupState());
    fails(GroupIdNotFoundException.class, () -> admin.describeConsumerGroups(List.of("nobody")).all().get());
  }

  private void offsets() throws Exception {
    admin.alterConsumerGroupOffsets("idle", Map.of(ZERO, new OffsetAndMetadata(2, "two"), ONE, new OffsetAndMetadata(0))).all().get();
    same(Set.of(ZERO, ONE), committed("idle").keySet());
    same("two", committed("idle").get(ZERO).metadata());
    Map<String, Map<TopicPartition, OffsetAndMetadata>> both = admin.listConsumerGroupOffsets(Map.of(
        "idle", new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(ZERO)),
        "nobody", new ListConsumerGroupOffsetsSpec())).all().get();
    same(2L, both.get("idle").get(ZERO).offset());
    same(1, both.get("idle").size());
    same(Map.of(), both.get("nobody"));
  }

  private void deleteOffsets() throws Exception {
    admin.deleteConsumerGroupOffsets("idle", Set.of(ONE)).all().get();
    same(Set.of(ZERO), committed("idle").keySet());
    fails(GroupIdNotFoundException.class, () -> admin.deleteConsumerGroupOffsets("nobody", Set.of(ONE)).all().get());
  }

  private void delete() throws Exception {
    admin.deleteConsumerGroups(List.of("idle")).all().get();
    same(Map.of(), committed("idle"));
    fails(GroupIdNotFoundException.class, () -> admin.deleteConsumerGroups(List.of("idle")).all().get());
  }

  private void remove() throws Exception {
    Member a = new Member(broker.consumer("group.id", "emptied", "group.instance.id", "a"), "watched");
    soon("it has all", 15, () -> a.held.size() == 2);
    a.close();
    same(1, admin.describeConsumerGroups(List.of("emptied")).all().get().get("emptied").members().size());
    admin.removeMembersFromConsumerGroup("emptied",
        new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("a")))).all().get();
    same(GroupState.EMPTY, admin.describeConsumerGroups(List.of("emptied")).all().get().get("emptied").groupState());
    admin.removeMembersFromConsumerGroup("used", new RemoveMembersFromConsumerGroupOptions()).all().get();
    same(GroupState.EMPTY, admin.describeConsumerGroups(List.of("used")).all().get().get("used").groupState());
  }
}
